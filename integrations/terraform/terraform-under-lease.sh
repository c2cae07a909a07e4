#!/bin/sh
# Runs terraform under a lease, one at a time, unless the command changes neither a state nor resources.
# Usage: TERRAFORM_LEASE=terraform/shop-production [TERRAFORM_WAIT=1h] terraform-under-lease.sh apply plan.out
set -eu
: "${TERRAFORM_LEASE:?must name the lease, such as terraform/shop-production}"

# Options such as -chdir=DIR may stand before the command.
command=
for word in "$@"; do
  case "$word" in
    -help | --help | -h | -version | --version | -v) exec terraform "$@" ;;
    -*) ;;
    *) command=$word && break ;;
  esac
done

case "$command" in
  '' | console | fmt | get | graph | login | logout | metadata | output | plan | providers | show | validate | version)
    exec terraform "$@"
    ;;
  init)
    # These may move the state to another place.
    case " $* " in
      *" -migrate-state"* | *" --migrate-state"* | *" -reconfigure"* | *" --reconfigure"* | *" -force-copy"* | *" --force-copy"*) ;;
      *) exec terraform "$@" ;;
    esac
    ;;
  workspace)
    case " $* " in
      *" workspace list "* | *" workspace show "* | *" workspace select "*) exec terraform "$@" ;;
    esac
    ;;
esac

# When the lease cannot be renewed or is revoked, terraform has 100 s to end what it has begun, and to write its state.
# Signals are for terraform alone: the plugins of its providers would end at once.
exec leasehold leases run "$TERRAFORM_LEASE" --ttl 5m --grace 100s --wait "${TERRAFORM_WAIT:-0s}" --single-child \
  --comment "terraform $command" -- terraform "$@"
