"""What we know of PyTorch's operators: one table, one row an operator.

`table` has the rows, and `row` says what its columns mean: all that no schema says. What PyTorch
itself says (what draws, what is written to, what has a size that nobody knows) is asked of it in
`asking`. `captured` goes through captured graphs. The table imports nothing, so that whoever only
reads it starts as fast as before.
"""
