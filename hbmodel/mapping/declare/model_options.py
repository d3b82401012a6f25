"""The options of `@hb.model(...)`, and their checks."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from hbmodel.encoding.salts import Salt
from hbmodel.errors import DeclarationError
from hbmodel.mapping.declare.allowed_names import check_table
from hbmodel.mapping.declare.family_options import check_family, family_name
from hbmodel.mapping.schema import FLAG, is_claim
from hbmodel.store.values import Family

# TableName.isLegalFullyQualifiedTableName: letters, digits, underscore, hyphen, dot; not starting with hyphen or dot.


@frozen
class ModelOptions:
    """The arguments of the decorator."""

    table: str
    family: str | Family
    families: Sequence[Family]
    salt: Salt | None
    immutable: bool
    external: bool
    exists: bytes | None
    row: bytes | None = None
    kind: bytes | None = None
    blind_puts: bool = True
    flag_value: bytes = FLAG
    witness: str | None = None

    @property
    def family_name(self) -> str:
        """Name of the default family. It must not be read before the option `family` has been checked."""
        return self.family.name.decode() if isinstance(self.family, Family) else self.family


def check_options(model: str, options: ModelOptions) -> None:
    """Checks the arguments of the decorator.

    Raises:
        DeclarationError: an argument is invalid; the error names the model and says what to do.
    """
    check_table(model, options.table)
    if isinstance(options.family, Family):
        check_family(options.family, model=model)
    else:
        family_name(options.family, model=model)
    if options.immutable and not options.blind_puts:
        raise DeclarationError(
            "Rows of an immutable model are put once, so no put replaces a cell: leave out blind_puts=False.",
            model=model,
            option="blind_puts",
        )
    if not isinstance(options.families, list | tuple) or not all(
        isinstance(family, Family) for family in options.families
    ):
        raise DeclarationError(
            'families takes families with options: families=(hb.family("t", ttl=...),).', model=model, option="families"
        )
    names = [options.family_name]
    for family in options.families:
        check_family(family, model=model)
        names.append(family.name.decode())
    if len(set(names)) < len(names):
        raise DeclarationError(
            "A column family is declared twice: declare the model's own family with family=hb.family(...), and each "
            "further one once in families=.",
            model=model,
            option="families",
            families=names,
        )
    if options.salt is not None and not isinstance(options.salt, Salt):
        raise DeclarationError("A salt must be a Salt, such as hb.HashSalt(16).", model=model, found=repr(options.salt))
    _check_existence(model, options)


def _check_existence(model: str, options: ModelOptions) -> None:
    """Checks the option that says which rows exist."""
    value = options.flag_value
    if value != FLAG and not options.external:
        raise DeclarationError(
            "Only a model with external=True can choose the value of its flag: leave the value out.",
            model=model,
            option="exists",
        )
    if not isinstance(value, bytes) or not value or is_claim(value):
        raise DeclarationError(
            'The value of a flag must be bytes, such as hb.flag("_0", b"x"). It must not be empty, and must not be a '
            "00 byte with 8 bytes after it.",
            model=model,
            option="exists",
            found=repr(value),
        )
