#!/bin/sh
# `exec`: signals reach Node, which is the first process of the container.
exec node /opt/leasehold/apps/cli/bin/leasehold.mjs "$@"
