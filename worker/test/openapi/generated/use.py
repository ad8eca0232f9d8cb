"""What a program does with the client that openapi-python-client makes."""

import base64
import os
from io import BytesIO

from sealpin import AuthenticatedClient
from sealpin.api.files import delete_file, get_file, get_file_content, list_files, store_encrypted, store_plain
from sealpin.models import EncryptedJsonUpload, FileList, FileWithData, NewlyStoredFile, Problem, Receipt, KeyFate
from sealpin.types import File

client = AuthenticatedClient(base_url=os.environ["SERVICE"], token=os.environ["KEY"])
content = bytes([0, 1, 2, 253, 254, 255])

body = EncryptedJsonUpload(filename="n.bin", data=base64.b64encode(content).decode())
encrypted = store_encrypted.sync(client=client, body=body)
plain = store_plain.sync(client=client, body=File(payload=BytesIO(content)), idempotency_key="one")
assert isinstance(encrypted, NewlyStoredFile) and isinstance(plain, NewlyStoredFile), (encrypted, plain)

files = list_files.sync(client=client, limit=2)
assert isinstance(files, FileList)
assert [(each.file_id, each.size) for each in files.files] == [(plain.file_id, 6), (encrypted.file_id, 6)]

for stored, key in ((encrypted, KeyFate.DESTROYED), (plain, KeyFate.NONE)):
    raw = get_file_content.sync(stored.file_id, client=client)
    assert isinstance(raw, File) and raw.payload.read() == content
    file = get_file.sync(stored.file_id, client=client)
    assert isinstance(file, FileWithData) and isinstance(file.data, str)
    assert base64.b64decode(file.data) == content
    receipt = delete_file.sync(stored.file_id, client=client)
    assert isinstance(receipt, Receipt) and receipt.key == key
    gone = get_file.sync(stored.file_id, client=client)
    assert isinstance(gone, Problem) and gone.code == "not_found"
