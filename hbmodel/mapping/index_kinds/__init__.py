"""Kinds of index parts, one module each behind the interface of `part`; a new kind adds a module and the function
that declares it.
"""
