'use client';

import { Drawer } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { usePathname } from 'next/navigation';
import { useEffect, type ReactNode } from 'react';
import { Header } from './header.tsx';
import { Nav } from './nav.tsx';
import classes from './shell.module.css';

/** The frame of every page: the way between pages on the left, what is true of all above. */
export function Shell({ children }: { readonly children: ReactNode }) {
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
      <Drawer
        opened={isNavOpen}
        onClose={close}
        size="15rem"
        padding={0}
        withCloseButton={false}
        aria-label="Pages"
      >
        <Nav onNavigate={close} />
      </Drawer>
      <div className={classes['main']}>
        <Header onOpenNav={open} />
        <main id="content" className={classes['content']} tabIndex={-1}>
          {children}
        </main>
      </div>
    </div>
  );
}
