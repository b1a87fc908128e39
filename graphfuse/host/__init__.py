"""Models whose parts Python runs in turn: cut and compiled (`build`), as data (`program`), run (`session`).

`program` and `program_json` are level 0, as the artifact has one; the rest stands on everything (docs/adr/0013).
"""
