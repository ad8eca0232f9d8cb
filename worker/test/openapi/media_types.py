"""Lets Schemathesis send the bodies of tus, which it does not know to be bytes."""

import schemathesis

schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")
