"""UUIDs."""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

from hbmodel.encoding.codecs.base import JSON, DefaultCodecs, FixedWidth, SpecReaders, wrong_type, wrong_width


@frozen
class UUIDCodec(FixedWidth[UUID]):
    """A UUID as its 16 bytes, which have the same order as the text of UUIDs."""

    python_type = UUID
    width = 16

    def encode(self, value: UUID) -> bytes:
        if not isinstance(value, UUID):
            raise wrong_type(UUID, value)
        return value.bytes

    encode_part = encode

    def decode(self, data: bytes) -> UUID:
        if len(data) != self.width:
            raise wrong_width(self.width, len(data))
        return UUID(bytes=data)

    @property
    def spec(self) -> dict[str, JSON]:
        return {"codec": "uuid"}


UUID128 = UUIDCodec()

DEFAULTS: DefaultCodecs = {UUID: UUID128}
SPECS: SpecReaders = {"uuid": lambda spec, codec_of: UUID128}
