"""A fuzzer of the whole bounding engine: random networks and sets, truth from ball arithmetic.

``graphs`` draws networks, ``regions`` and ``people`` draw sets of moves and similar people, ``search`` looks for the
worst members, ``exact`` says what the network gives there, ``cases`` puts them together by a case number, ``engine`` is
the only module that knows the engine. ``python -m tests.fuzz.run --cases 1000`` runs a campaign.
"""
