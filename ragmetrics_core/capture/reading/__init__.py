"""From the tree of a run to its samples, by few rules. Nothing calls it yet.

    Tree ─▶ Turn ─▶ FoundAnswer ─▶ Evidence ─▶ Ledger and Sample

These stages take the place of those one folder above. The files move up when they do.
"""
