"""Kinds of index parts, one module for each kind, all with the interface of `part`; a new kind adds a module and the
function that declares it.
"""
