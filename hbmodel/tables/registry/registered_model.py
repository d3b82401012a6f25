"""Makes a model from a table's registry entry, so that the table can be read without a program that declares its
model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from attrs import Factory, evolve

from hbmodel.encoding.codecs import Bytes, Codec, JavaLong
from hbmodel.encoding.codecs.floats import FloatCodec
from hbmodel.encoding.codecs.from_spec import UnknownCodec, codec_of
from hbmodel.encoding.key_layout import KeyField, KeyLayout
from hbmodel.encoding.salts import DigestSalt, HashSalt, JavaHashSalt, NoSalt, RandomSalt, Salt, TextSalt
from hbmodel.errors import DeclarationError, RowKeyError, SchemaMismatch
from hbmodel.mapping.declare.declaration import build_schema
from hbmodel.mapping.declare.index_declaration import IndexSpec
from hbmodel.mapping.declare.model_options import ModelOptions
from hbmodel.mapping.index_kinds.plain import IndexField
from hbmodel.mapping.map_columns import MapField
from hbmodel.mapping.model_field import Field
from hbmodel.mapping.schema import VERSION_QUALIFIER, TableSchema
from hbmodel.mapping.version_cell import UNKNOWN, VersionCodec
from hbmodel.tables.registry.entry_shape import check_index_spec, entry_of
from hbmodel.tables.registry.layout_differences import same_spec
from hbmodel.tables.registry.registration import ABSENT, IndexState, Registration
from hbmodel.tables.registry.registry_cells import EXTERNAL, shows_external
from hbmodel.tables.registry.registry_rows import RegistryKey

Spec = Mapping[str, Any]

ABSENT_CELL: Final[Any] = Factory(lambda: None)
"""The default of columns that are missing in a row. The default is None, because the registry does not keep the
defaults of models.
"""

ENTRY_CELL = "_v"
"""The name of the field for the cell that every index entry has."""


def registered_model(place: RegistryKey, registration: Registration) -> type[Any]:
    """Returns a model with the keys, columns, salt and plain indexes that are registered for a table.

    The model is for reading only. The registry does not keep defaults, so a column that is missing in a row reads as
    None.

    Raises:
        SchemaMismatch: a codec or the salt is defined by a program, so keys cannot be read without that program.
        StoreError: this version cannot read the registry's entry.
    """
    with entry_of(place.table):
        return _model(place, evolve(registration, layout=_with_distinct_names(registration.layout)))


def _model(place: RegistryKey, registration: Registration) -> type[Any]:
    states = [state for state in registration.indexes.values() if state.state != ABSENT]
    specs = {state.name: _present(registration.layout, state) for state in states}
    declared = {name: index for name, spec in specs.items() if (index := _index(spec)) is not None}
    schema = _schema(place, registration, declared)
    same = {name for name in declared if same_spec(schema.indexes[name].spec, specs[name])}
    if same != set(declared):
        schema = _schema(place, registration, {name: spec for name, spec in declared.items() if name in same})
    return schema.model


def registered_index(place: RegistryKey, registration: Registration, state: IndexState) -> type[Any]:
    """Returns a model whose objects are the entries of an index. The fields of the model are the key fields, the
    covered columns, and the cell `_v`, which identifies the write that put the entry.

    Raises:
        SchemaMismatch: a program defines a codec or the salt.
        StoreError: this version cannot read the registry's entry.
    """
    with entry_of(place.table):
        return _index_model(place, evolve(registration, layout=_with_distinct_names(registration.layout)), state)


def _index_model(place: RegistryKey, registration: Registration, state: IndexState) -> type[Any]:
    check_index_spec(state.spec)
    present = _present(registration.layout, state)
    fields = [_key(state.table, spec) for spec in present["fields"]]
    columns = {spec["name"]: (column, spec) for column, spec in registration.layout["columns"].items()}
    external = _is_external(registration)
    fields += [_column(*columns[name], external=external) for name in present["covers"] if name in columns]
    entry = Field(ENTRY_CELL, "column", Bytes, family=place.family, qualifier=VERSION_QUALIFIER, strict=True)
    fields.append(entry)
    salt = salt_of(state.table, present["salt"])
    model = type(state.table, (), {})
    options = ModelOptions(
        state.table, place.family.decode(), (), salt, immutable=True, external=True, exists=None, witness=ENTRY_CELL
    )
    schema = _built(state.table, model, fields, {}, options)
    if present["tail"]:
        layout = KeyLayout(
            tuple(KeyField(f.name, f.codec, f.desc, f.nullable) for f in schema.key_fields), tail=present["tail"]
        )
        schema = evolve(schema, layout=layout)
    _mark(model, schema)
    return model


def _schema(place: RegistryKey, registration: Registration, indexes: Mapping[str, IndexSpec]) -> TableSchema:
    layout, versioned = registration.layout, bool(registration.layout.get("version"))
    columns, external = layout["columns"], _is_external(registration)
    fields = [_key(place.table, spec) for spec in layout["key"]]
    indexed = {part.name for index in indexes.values() for part in index.parts}
    fields += [
        _column(column, spec, in_key=spec["name"] in indexed, external=external)
        for column, spec in columns.items()
        if spec["kind"] != "map"
    ]
    if versioned:
        name = _free("version", {f.name for f in fields})
        fields.append(
            Field(name, "version", VersionCodec(), default=UNKNOWN, family=place.family, qualifier=VERSION_QUALIFIER)
        )
    salt = salt_of(place.table, layout["salt"])
    row, kind, exists = layout.get("row"), layout.get("kind"), layout.get("exists")
    verified = any(state.spec.get("verified") for state in registration.indexes.values())
    unchanging = registration.rows == "plain" or (salt is not None and salt.random)
    model = type(place.table, (), {})
    options = ModelOptions(
        place.table,
        place.family.decode(),
        (),
        salt,
        immutable=unchanging or (verified and not versioned),
        external=external,
        exists=None if exists is None else exists.encode("latin-1"),
        row=None if row is None else row.encode("latin-1"),
        kind=None if kind is None else kind.encode("latin-1"),
    )
    maps = [_map(column, spec) for column, spec in columns.items() if spec["kind"] == "map"]
    schema = _built(place.table, model, fields, indexes, options, maps)
    _mark(model, schema)
    return schema


def _is_external(registration: Registration) -> bool:
    return registration.rows == "plain" or EXTERNAL in registration.cells or shows_external(registration.layout)


def _with_distinct_names(layout: Spec) -> Spec:
    """Returns a layout in which each column has a name of its own.

    A field that was renamed by mistake may have left a column under the name that the field has now. That column has
    its name as its alias, while the field keeps the alias from before. So the field keeps the name.
    """
    taken, columns = {spec["name"] for spec in layout["key"]}, {}
    for column, spec in sorted(layout["columns"].items(), key=lambda each: each[0].endswith(f":{each[1]['name']}")):
        name = _free(spec["name"], taken)
        taken.add(name)
        columns[column] = {**spec, "name": name}
    return {**layout, "columns": {column: columns[column] for column in layout["columns"]}}


def _present(layout: Spec, state: IndexState) -> Spec:
    """Returns the description of an index with the present names of its fields.

    The registered description has the names from the time when the index was registered: a rename changes only the
    layout of the table.
    """
    spec, stored = state.spec, state.entry.get("stored")
    if stored is None:
        return spec
    places = {f"key {at}": each["name"] for at, each in enumerate(layout["key"])}
    places.update({column: each["name"] for column, each in layout["columns"].items()})
    places.update({f"{place}[]": f"{name}[]" for place, name in places.items()})
    names = {
        former: places.get(place, former)
        for former, place in zip(_names(spec), _names(stored), strict=True)  # a computed field has no place
    }
    present: dict[str, Any] = {part: [names[name] for name in spec[part]] for part in ("declared", "covers")}
    present["fields"] = [{**each, "name": names[each["name"]]} for each in spec["fields"]]
    if spec["salt"].get("by"):
        present["salt"] = {**spec["salt"], "by": [names[name] for name in spec["salt"]["by"]]}
    return {**spec, **present}


def _names(spec: Spec) -> list[str]:
    return [*(each["name"] for each in spec["fields"]), *spec["declared"], *spec["covers"]]


def _index(spec: Spec) -> IndexSpec | None:
    """Returns a plain index as it was declared. Returns None for an index with computed fields, elements or a
    condition, because these are defined by code.
    """
    if spec.get("kinds") or spec.get("where"):
        return None
    check_index_spec(spec)
    fields = {each["name"]: each for each in spec["fields"]}
    parts = tuple(IndexField(name, fields[name]["desc"]) for name in spec["declared"])
    try:
        salt = salt_of("", spec["salt"])
    except SchemaMismatch:
        return None
    return IndexSpec(parts, tuple(spec["covers"]), salt, unique=bool(spec.get("unique")))


def _mark(model: type[Any], schema: TableSchema) -> None:
    model.__hbmodel__ = schema


def _built(
    table: str,
    model: type[Any],
    fields: Sequence[Field],
    indexes: Mapping[str, IndexSpec],
    options: ModelOptions,
    maps: Sequence[MapField] = (),
) -> TableSchema:
    try:
        return build_schema(model, fields, indexes, options, {}, maps)
    except DeclarationError as error:
        raise SchemaMismatch(
            "The registry's description is not enough to read the table: use the program's model.",
            **{**error.details, "table": table, "reason": error.message},
        ) from None


def _free(name: str, taken: set[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _key(table: str, spec: Spec) -> Field:
    codec = codec_of(spec["codec"])
    if isinstance(codec, UnknownCodec):
        raise SchemaMismatch(
            "The codec of a key field is code of a program, and the registry does not contain it: use that program's "
            "model.",
            table=table,
            field=spec["name"],
        )
    split = spec.get("split")
    return Field(
        spec["name"],
        "key",
        codec,
        spec["nullable"],
        desc=spec["desc"],
        in_qualifier=spec.get("part") == "column",
        row_span=None if split is None else timedelta(microseconds=split),
    )


def _value_codec(spec: Spec) -> Codec[Any]:
    """Returns the codec of a value outside of keys. For floats it allows NaN, because the registry does not record
    whether NaN occurs.
    """
    codec = codec_of(spec)
    return codec(nan=True) if isinstance(codec, FloatCodec) else codec


def _column(column: str, spec: Spec, *, in_key: bool = False, external: bool = False) -> Field:
    family, _, qualifier = column.encode("latin-1").partition(b":")
    if spec["kind"] == "counter":
        return Field(spec["name"], "counter", JavaLong, default=0, family=family, qualifier=qualifier)
    default = None if spec["nullable"] else ABSENT_CELL
    codec = codec_of(spec["codec"]) if in_key else _value_codec(spec["codec"])
    unescaped = spec["null"] == "absent"
    return Field(
        spec["name"],
        "column",
        codec,
        spec["nullable"],
        default,
        family=family,
        qualifier=qualifier,
        null="delete" if unescaped else spec["null"],
        unescaped=unescaped,
        strict=external,
    )


def _map(column: str, spec: Spec) -> MapField:
    family, _, qualifier = column.encode("latin-1").partition(b":")
    value = Field(
        spec["name"],
        "column",
        _value_codec(spec["codec"]),
        nullable=True,
        default=None,
        family=family,
        qualifier=qualifier,
    )
    return MapField(spec["name"], codec_of(spec["key"]), value)


def _own_choice(data: bytes) -> int:
    raise RowKeyError(
        "A function of a program chooses the bucket, and the registry does not contain this function: use the "
        "program's model."
    )


def salt_of(table: str, spec: Spec) -> Salt | None:
    """Returns the salt of a table, made from its description in the registry, or None if the table has no salt.

    Raises:
        SchemaMismatch: a program defines the salt.
    """
    by = tuple(spec.get("by", ()))
    salt: Salt | None = None
    match spec.get("salt"):
        case "none":
            return None
        case "hash":
            salt = HashSalt(spec["buckets"], by=by)
        case "random":
            salt = RandomSalt(spec["buckets"])
        case "text":
            own = None if spec["choose"] == "crc32" else _own_choice
            salt = TextSalt([bytes.fromhex(prefix) for prefix in spec["prefixes"]], by=by, choose=own)
        case "digest":
            salt = DigestSalt(spec["digits"], by=by, algorithm=spec["algorithm"])
        case "java_hash":
            salt = JavaHashSalt(spec["buckets"], by=by)
    if salt is None or {**salt.spec, "by": list(by)} != dict(spec):
        raise SchemaMismatch(
            "The salt is code of a program, and the registry does not contain it: use that program's model.",
            table=table, salt=spec.get("salt"),
        )  # fmt: skip
    return salt


def bucket_known(salt: Salt) -> bool:
    """Returns whether the bucket of a key can be computed."""
    own_salt: Any = getattr(salt, "salt", salt)
    return (
        not own_salt.random
        and not (isinstance(own_salt, TextSalt) and own_salt.choose is _own_choice)
        and not isinstance(own_salt, NoSalt)
    )
