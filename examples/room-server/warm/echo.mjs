import { existsSync, readFileSync, rmSync, watch } from 'node:fs';
import { createServer } from 'node:http';
import { dirname } from 'node:path';

// Whatever takes long and needs no key comes first.
const { LEASEHOLD_CLAIM_FILE: claim } = process.env;
if (claim !== undefined) {
  await new Promise((resolve) => {
    const look = () => existsSync(claim) && resolve(watcher.close());
    const watcher = watch(dirname(claim), look);
    look();
  });
  Object.assign(process.env, JSON.parse(readFileSync(claim, 'utf8')));
}

const { LEASEHOLD_KEY: key, PORT: port } = process.env;
const server = createServer((_request, response) => response.end(`hello from ${key}\n`));
// It serves its key now: until the claim is removed, nobody is sent here.
server.listen(Number(port), '127.0.0.1', () => claim !== undefined && rmSync(claim));
process.on('SIGTERM', () => process.exit(0));
