"""What is provable: bounds of a network's outputs over regions, asked of the kernel (:mod:`isonomy_verify`)."""
