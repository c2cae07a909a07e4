# Controller, console, gateway and command line; the command of the container chooses one. docs/production.md explains it.
# From the root of the repository, after `npm run pack:all`:
#   buildah build --format docker -f deploy/images/leasehold.Dockerfile -t leasehold:0.1.0 .
ARG BASE=docker.io/library/node:22-slim

FROM ${BASE} AS unpack
# Everything but an embedded PostgreSQL is inside the package, so nothing is downloaded here.
ARG PACKAGE=out/packages/leasehold-[0-9]*.tgz
COPY ${PACKAGE} /tmp/package/
RUN mkdir /opt/leasehold \
  && tar -xzf /tmp/package/*.tgz -C /opt/leasehold --strip-components=1 --no-same-owner \
  && chmod -R a+rX,go-w /opt/leasehold

FROM ${BASE}
COPY --from=unpack /opt/leasehold /opt/leasehold
COPY --chmod=0555 deploy/images/leasehold.sh /usr/local/bin/leasehold
COPY --chmod=0444 deploy/images/health.mjs /opt/leasehold/health.mjs
# The home: a controller keeps witness.json here. The only folder that is written to.
RUN mkdir -p /var/lib/leasehold && chown 10001:10001 /var/lib/leasehold && chmod 0700 /var/lib/leasehold
VOLUME /var/lib/leasehold
ENV NODE_ENV=production LEASEHOLD_HOME=/var/lib/leasehold LEASEHOLD_HOST=0.0.0.0
WORKDIR /opt/leasehold
USER 10001:10001
EXPOSE 4600 4601 4602
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=3 CMD ["node", "/opt/leasehold/health.mjs"]
ENTRYPOINT ["leasehold"]
CMD ["controller"]
