import { useDisclosure } from '@mantine/hooks';
import { usePathname } from 'next/navigation';
import { useEffect, type ReactNode } from 'react';
import { FootPlace } from '../states/foot.tsx';
import { lazyDialog } from '../dialogs/lazy-dialog.tsx';
import { Header } from './header.tsx';
import { Nav } from './nav.tsx';
import classes from './shell.module.css';

const NavDrawer = lazyDialog('isOpen', () =>
  import('./nav-drawer.tsx').then((module) => module.NavDrawer),
);

/** The frame of every page: the links to all pages on the left, what concerns all of them above. */
export function Shell({
  account,
  children,
}: {
  readonly account: ReactNode;
  readonly children: ReactNode;
}) {
  const [isNavOpen, { open, close }] = useDisclosure(false);
  const pathname = usePathname();
  useEffect(close, [pathname, close]);
  return (
    <div className={classes['shell']}>
      <a href="#content" className="skip-link">
        Skip to the content
      </a>
      <div className={classes['side']}>
        <Nav />
      </div>
      <NavDrawer isOpen={isNavOpen} onClose={close} />
      <div className={classes['main']}>
        <Header account={account} onOpenNav={open} />
        <main id="content" className={classes['content']} tabIndex={-1}>
          {children}
          <FootPlace />
        </main>
      </div>
    </div>
  );
}
