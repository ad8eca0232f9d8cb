#!/bin/sh
# Lets the token in KUBO_TOKEN call what Sealpin needs, and nobody anything else.
# Kubo's image runs it before each start.
set -eu
case ${KUBO_TOKEN:-} in
  '' | *[!A-Za-z0-9_-]*) echo 'KUBO_TOKEN must be letters, digits, - and _' >&2; exit 1 ;;
esac
ipfs config --json API.Authorizations "{\"sealpin\": {\"AuthSecret\": \"bearer:$KUBO_TOKEN\", \"AllowedPaths\": [
  \"/api/v0/cat\", \"/api/v0/block/get\", \"/api/v0/block/rm\", \"/api/v0/dag/import\", \"/api/v0/dag/stat\",
  \"/api/v0/pin/add\", \"/api/v0/pin/ls\", \"/api/v0/pin/rm\", \"/api/v0/version\"]}}"
