"""SERVICE=https://… KEY=sp_… python3 round-trip.py <file>"""
import json, os, sys, time, urllib.error, urllib.parse, urllib.request, uuid


def call(method, path, body=None, headers={}):
    """Repeats a request until its status is final: 408, 409 idempotency_running, 429, 5xx and no response are not."""
    headers = {**headers, "Authorization": f"Bearer {os.environ['KEY']}"}
    for attempt in range(1, 7):
        request = urllib.request.Request(os.environ["SERVICE"] + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            reason, seconds = f"{error.code} {error.read().decode()}", int(error.headers["Retry-After"] or attempt)
            if error.code < 500 and error.code not in (408, 429) and '"idempotency_running"' not in reason:
                break
        except OSError as error:
            reason, seconds = str(error), attempt
        time.sleep(seconds)
    sys.exit(reason)


with open(sys.argv[1], "rb") as file:
    content = file.read()
name = urllib.parse.quote(os.path.basename(sys.argv[1]), safe="")
stored = json.loads(call("POST", "/v1/storage/encrypted", content, {
    "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
    "Content-Type": "application/octet-stream",
    "Idempotency-Key": str(uuid.uuid4()),
}))
path = f"/v1/storage/{stored['fileId']}"
assert call("GET", f"{path}/content") == content
print(call("DELETE", path).decode())
