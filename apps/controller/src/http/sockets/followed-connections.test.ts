import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Access } from '@leasehold/api';
import { expect, test } from 'vitest';
import { followAccess } from './open-connections.ts';

const ACCESS: Access = {
  principal: 'token-a',
  name: 'a',
  role: 'viewer',
  namespaces: null,
  droneId: null,
};

/** What is followed at the end, of an answer that was gone before it is followed, or goes afterwards. */
function followed(isGoneBefore: boolean): number {
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  const open = new Set<() => void>();
  const connections = {
    add(_access: Access, end: () => void) {
      open.add(end);
      return () => void open.delete(end);
    },
    get count() {
      return open.size;
    },
    close: () => undefined,
  };
  if (isGoneBefore) response.destroy();
  followAccess({ connections }, ACCESS, response);
  if (!isGoneBefore) response.emit('close');
  return open.size;
}

test.each([false, true])(
  'an answer that has gone (%s: before) is not remembered',
  (isGoneBefore) => {
    expect(followed(isGoneBefore)).toBe(0);
  },
);
