"""What follows the last step of the chains: searches that begin where the chains are (`ending` decides which).

- With an objective, on pairs: `population` lets many searchers of an instance go on, in rounds. `swaps` is for
  independent sets without weights, `cooling` (annealing) for cuts, `walk` (tabu search) for what is left. Descent with
  exchanges, `polish`, comes last.
- Without one, on pairs, as in graph colouring: `backtracking`, a tree search, then `repair`, tabu search on what is
  violated.
- Without one, on many variables, as in Sudoku: `completion`, a tree search with `propagation`.
- With an objective, on many variables: `improvement`, which solves blocks anew by that tree search.

`terms` and `rows` are what searches on pairs look up and change; files that end in `_kernel` do the same on a GPU.
"""
