import dynamic from 'next/dynamic';

/** What a first visit does not show is loaded with its tab. */
export const JsonView = dynamic(() =>
  import('~/ui/page/json-view.tsx').then((module) => module.JsonView),
);
export const EventsPanel = dynamic(() =>
  import('../timeline/events-panel.tsx').then((module) => module.EventsPanel),
);
