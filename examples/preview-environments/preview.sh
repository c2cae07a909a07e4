#!/bin/sh
# Serves the build of one branch: the one after which the key is named.
set -eu
site=/tmp/site
mkdir -p "$site"
wget -q -O "$site/index.html" "$BUILDS/$LEASEHOLD_KEY.html"
echo "serving $LEASEHOLD_KEY"
exec httpd -f -p "$PORT" -h "$site"
