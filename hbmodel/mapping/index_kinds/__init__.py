"""Kinds of index parts, one module for each kind, all with the interface of `base`; a new kind needs a module and a
function that declares it.
"""
