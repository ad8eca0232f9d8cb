"""Uploads a file with tuspy, as its users do: python tuspy.py '<options as JSON>'. Prints the URL of the upload.

Options: endpoint, headers, file, and optionally chunkSize, stopAt, urls (a file that keeps the URLs of uploads, so that
another process continues), checksum, asynchronous.
"""
import asyncio
import json
import sys

from tusclient.client import TusClient
from tusclient.storage.filestorage import FileStorage

options = json.loads(sys.argv[1])
client = TusClient(options["endpoint"], headers=options["headers"])
settings = {
    "file_path": options["file"],
    "metadata": {"filename": "from tuspy.bin", "filetype": "application/octet-stream"},
    "upload_checksum": options.get("checksum", False),
}
if "chunkSize" in options:
    settings["chunk_size"] = options["chunkSize"]
if "urls" in options:
    settings |= {"store_url": True, "url_storage": FileStorage(options["urls"])}
if options.get("asynchronous"):
    uploader = client.async_uploader(**settings)
    asyncio.run(uploader.upload())
else:
    uploader = client.uploader(**settings)
    uploader.upload(stop_at=options.get("stopAt"))
print(uploader.url)
