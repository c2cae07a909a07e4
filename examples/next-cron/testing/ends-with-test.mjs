/** Loaded before `next start` in a test: the replica ends with the process that started it. */
import process from 'node:process';

process.on('disconnect', () => process.exit());
process.send?.({ type: 'ready' });
