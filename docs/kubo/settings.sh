#!/bin/sh
# The settings of a Kubo for Sealpin: it takes no part of its configuration from anybody else.
# Kubo's image runs this before each start.
set -eu

# By these peers a node finds others: those of Kubo 0.43.1 (boxo 0.43.0, autoconf/fallbacks.go), as
# of 2026-11.
# IPFS_BOOTSTRAP, addresses with spaces between, replaces them. Empty: none, and this node connects
# to nobody by itself.
peers=${IPFS_BOOTSTRAP-"
  /dnsaddr/sv15.bootstrap.libp2p.io/p2p/QmNnooDu7bfjPFoTZYxMNLWUQJyrVwtbZg5gBMjTezGAJN
  /dnsaddr/ny5.bootstrap.libp2p.io/p2p/QmQCU2EcMqAqQPR2i9bChDtGNJchTbq5TbXJJ16u19uLTa
  /dnsaddr/am6.bootstrap.libp2p.io/p2p/QmbLHAnMoJPWSCR5Zhtx6BHJX9KiKNN6tpvbUcqanj75Nb
  /dnsaddr/sg1.bootstrap.libp2p.io/p2p/QmcZf59bWwK5XFi76CZX8cbJ4BhTzzA3gU1ZjYZcYW3dwt
  /dnsaddr/va1.bootstrap.libp2p.io/p2p/12D3KooWKnDdG3iXw9eTFijk3EWSunZcFi54Zka4wmtqtt6rPxc8
  /ip4/104.131.131.82/udp/4001/quic-v1/p2p/QmaCpDMGvV2BGHeYERUEnRQAwe3N8SzbUtfsmvsqQLuvuJ"}

list=''
for peer in $peers; do list="$list${list:+, }\"$peer\""; done
set_json() { ipfs config --json "$1" "$2"; }

# No list of peers, routers and resolvers from conf.ipfs-mainnet.org, and nothing left that waits
# for one.
set_json AutoConf.Enabled false
set_json Bootstrap "[$list]"
set_json Routing.DelegatedRouters '[]'
set_json Ipns.DelegatedPublishers '[]'
set_json DNS.Resolvers '{}'
set_json Routing.Type "\"$([ -n "$list" ] && echo dht || echo none)\""
# No certificates from libp2p.direct, and no blocks by HTTP, which only delegated routers find.
set_json AutoTLS.Enabled false
set_json HTTPRetrieval.Enabled false

# TCP and QUIC to other nodes, and no gateway.
port=${IPFS_SWARM_PORT:-4001}
set_json Addresses.Swarm "[\"/ip4/0.0.0.0/tcp/$port\", \"/ip6/::/tcp/$port\",
  \"/ip4/0.0.0.0/udp/$port/quic-v1\", \"/ip6/::/udp/$port/quic-v1\"]"
set_json Addresses.Gateway '[]'
set_json Swarm.Transports.Network '{"Websocket": false, "WebTransport": false, "WebRTCDirect": false}'
set_json Swarm.RelayClient.Enabled false
set_json Swarm.EnableHolePunching false

# At 90 % of this, unpinned blocks are removed (--enable-gc): four fifths of the disk. Nothing stops
# Kubo at it.
ipfs config Datastore.StorageMax \
  "${IPFS_STORAGE_MAX:?set IPFS_STORAGE_MAX in .env, for example to 80GB on a disk of 100 GB}"
