import type { ReactNode } from 'react';
import { Wordmark } from '~/ui/shell/wordmark.tsx';
import { LadderDrawing } from './ladder-drawing.tsx';
import classes from './front-door.module.css';

/** The page of a visitor who is not signed in: what this is, and the way in. */
export function FrontDoor({ children }: { readonly children: ReactNode }) {
  return (
    <div className={classes['page']}>
      <header className={classes['side']}>
        <Wordmark />
        <div className={classes['said']}>
          <p className={classes['question']}>
            Who holds this key right now, and for how long may they act as if they do?
          </p>
          <LadderDrawing />
        </div>
      </header>
      <main className={classes['main']}>
        <div className={classes['card']}>{children}</div>
      </main>
    </div>
  );
}
