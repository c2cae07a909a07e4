#!/bin/sh
# Runs terraform; what changes a state or its resources runs under a lease, one at a time.
# Usage: TERRAFORM_LEASE=terraform/shop-production [TERRAFORM_WAIT=1h] terraform-under-lease.sh apply plan.out
set -eu
: "${TERRAFORM_LEASE:?must name the lease, such as terraform/shop-production}"

case "${1:-}" in
  apply | destroy | import | refresh | state | taint | untaint) ;;
  *) exec terraform "$@" ;;
esac

# When the lease cannot be renewed or is revoked, terraform has 100 s to end what it has begun, and to write its state.
exec leasehold leases run "$TERRAFORM_LEASE" --ttl 5m --grace 100s --wait "${TERRAFORM_WAIT:-0s}" \
  --comment "terraform $1" -- terraform "$@"
