"""Search for hints, beside the kernel: nothing in here proves anything, and no module that proves imports it but
:mod:`isonomy_verify.decisions`, which takes hints from it and nothing else."""
