#!/bin/sh
# Installs the certificate of a bridge so that the bridge's group can read the key. As a deploy hook of certbot it runs after
# each renewal: certbot certonly … --deploy-hook /opt/sitewire/deploy/install-certificate.sh
# The bridge reads changed files again within ten seconds; it needs no restart.
#   RENEWED_LINEAGE   the folder with fullchain.pem and privkey.pem; certbot sets it
#   SITEWIRE_TLS      where the bridge reads them; default: /etc/sitewire/tls
#   SITEWIRE_GROUP    who may read the key; default: 1000, the group of the image's user
set -eu
from=${RENEWED_LINEAGE:?the folder with fullchain.pem and privkey.pem}
to=${SITEWIRE_TLS:-/etc/sitewire/tls}
group=${SITEWIRE_GROUP:-1000}

install -d -m 0750 -g "$group" "$to"
# The bridge accepts a pair only if the key belongs to the certificate, so it does not matter which file comes first.
for pair in fullchain.pem:server.pem privkey.pem:server.key; do
  install -m 0640 -g "$group" "$from/${pair%%:*}" "$to/${pair##*:}.new"
  mv "$to/${pair##*:}.new" "$to/${pair##*:}"
done
