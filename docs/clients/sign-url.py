"""SERVICE=https://… KEY=sp_… python3 sign-url.py <claims in JSON>: prints a signed URL, and sends nothing"""
import base64, hashlib, hmac, json, os, sys, time, uuid


def encode(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=")


key_hash = hashlib.sha256(os.environ["KEY"].encode()).digest()
secret = hmac.digest(bytes(32), key_hash, "sha256")  # HKDF (RFC 5869): extract, then one block of expand
secret = hmac.digest(secret, b"sealpin/v1 signed-url\x01", "sha256")
claims = {"exp": int(time.time()) + 3600, "jti": str(uuid.uuid4()), **json.loads(sys.argv[1])}
parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "kid": key_hash.hex()[:16]}, claims)]
token = b".".join(map(encode, parts))
token += b"." + encode(hmac.digest(secret, token, "sha256"))
print(f"{os.environ['SERVICE']}/v1/accounts/{os.environ['KEY'][3:25]}/signed/{token.decode()}")
