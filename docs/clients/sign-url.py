"""SERVICE=https://… KEY=sp_… python3 sign-url.py <claims in JSON>: prints a signed URL, and sends nothing

It needs the package cryptography. A download may be repeated unless its claims have a "jti" of your own."""
import base64, hashlib, json, os, string, sys, time, uuid
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


def encode(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=")


key, number = os.environ["KEY"], 0
for character in key[25:68]:  # the secret, in base62
    number = number * 62 + (string.digits + string.ascii_uppercase + string.ascii_lowercase).index(character)
seed = HKDF(SHA256(), 32, None, b"sealpin/v1 signed-url ed25519").derive(number.to_bytes(32, "big"))
claims = {"exp": int(time.time()) + 3600, **json.loads(sys.argv[1])}
if claims["method"] == "POST":
    claims.setdefault("jti", str(uuid.uuid4()))
header = {"alg": "EdDSA", "kid": hashlib.sha256(key.encode()).hexdigest()[:16]}
token = b".".join(encode(json.dumps(part).encode()) for part in (header, claims))
token += b"." + encode(Ed25519PrivateKey.from_private_bytes(seed).sign(token))
print(f"{os.environ['SERVICE']}/v1/accounts/{key[3:25]}/signed/{token.decode()}")
