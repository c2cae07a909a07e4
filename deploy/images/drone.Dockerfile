# A drone. It runs the programs that are in its image: make your own image from this one. docs/production.md explains it.
# From the root of the repository, after `npm run build:drone`:
#   buildah build --format docker -f deploy/images/drone.Dockerfile -t leasehold-drone:0.1.0 .
ARG BASE=docker.io/library/debian:12-slim

FROM ${BASE} AS check
ARG EXECUTABLE=out/drone/leasehold-drone-*-linux-x64
COPY --chmod=0555 ${EXECUTABLE} /usr/local/bin/leasehold-drone
# Fails here, and not when it is started, if the base lacks a library or a tool of the isolation.
RUN leasehold-drone --version && setpriv --version && setsid --version && unshare --version

FROM ${BASE}
COPY --from=check /usr/local/bin/leasehold-drone /usr/local/bin/leasehold-drone
# The state of agent and warden, logs, and the data of programs. Root writes here by its group: without
# CAP_DAC_OVERRIDE it may not write to a folder of another user.
RUN mkdir -p /var/lib/leasehold /etc/leasehold \
  && chown 10001:0 /var/lib/leasehold \
  && chmod 0770 /var/lib/leasehold
VOLUME /var/lib/leasehold
ENV LEASEHOLD_HOME=/var/lib/leasehold
# Without root a program runs as the drone's user, and can read its token where user namespaces are not allowed. As
# root, with the capabilities of deploy/kubernetes/drones, each program has a user of its own.
USER 10001:10001
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=3 CMD ["leasehold-drone", "health", "--config", "/etc/leasehold/drone.json"]
ENTRYPOINT ["leasehold-drone"]
CMD ["--config", "/etc/leasehold/drone.json"]
