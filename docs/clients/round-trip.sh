#!/usr/bin/env bash
# SERVICE=https://… bash round-trip.sh <file>; key.txt has the line "Authorization: Bearer sp_…"
set -euo pipefail
file=$1 response=$(mktemp -d)
trap 'rm -r "$response"' EXIT

# Repeats a request until its status is final: 408, 409 idempotency_running, 429, 5xx and no
# response (000) are not.
call() {
  local status seconds attempt
  for attempt in 1 2 3 4 5 6; do
    : > "$response/headers"
    : > "$response/body"
    status=$(curl -sS -H @key.txt -D "$response/headers" -o "$response/body" -w '%{http_code}' "$@") || status=000
    case $status in
      2??) cat "$response/body" && return ;;
      409) grep -q '"idempotency_running"' "$response/body" || break ;;
      000 | 408 | 429 | 5??) ;;
      *) break ;;
    esac
    seconds=$(awk 'tolower($1) == "retry-after:" { print $2 + 0 }' "$response/headers")
    sleep "${seconds:-$attempt}"
  done
  echo "$status $(cat "$response/body")" >&2
  return 1
}

key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
stored=$(call "$SERVICE/v1/storage/encrypted" -H "Idempotency-Key: $key" -H 'Content-Type: application/octet-stream' \
  -H "Content-Disposition: attachment; filename=\"$(basename "$file")\"" --data-binary "@$file")
path=/v1/storage/$(sed 's/.*"fileId":"\([^"]*\)".*/\1/' <<< "$stored")
call "$SERVICE$path/content" | cmp - "$file"
call -X DELETE "$SERVICE$path"
