import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { ApiError } from '~/lib/api/api-error.ts';
import { type Outputs, query } from '~/lib/api/api.ts';
import { useDatacenters } from '~/lib/datacenters.ts';
import { listedDatacenters } from '~/lib/here.ts';

type Answer = Outputs['search']['find'];
export type FoundItem = Answer['items'][number];

/** An answer, and the text that it is for. */
export interface AnsweredText {
  readonly text: string;
  readonly answer: Answer;
}

const FOUND_MAX = 20;

/** The newest answer to a search: that to the text before, until the one to this text is there. */
export function useFind(text: string): {
  readonly last: AnsweredText | null;
  readonly isSearching: boolean;
  readonly error: ApiError | null;
  readonly retry: () => void;
} {
  const { isSeveral } = useDatacenters();
  const input = { text, limit: FOUND_MAX, ...listedDatacenters(null, isSeveral) };
  const read = useQuery({
    ...query('search', 'find', input),
    enabled: text !== '',
    retry: false,
    refetchOnWindowFocus: false,
  });
  const [last, setLast] = useState<AnsweredText | null>(null);
  const { data } = read;
  useEffect(() => {
    if (text === '') setLast(null);
    else if (data !== undefined) setLast({ text, answer: data });
  }, [text, data]);
  return {
    last,
    isSearching: read.isFetching,
    error: read.error,
    retry: () => void read.refetch(),
  };
}

/** What a search did not cover, in words; undefined if it covered everything. */
export function uncoveredText({ failed, isComplete, unreachable }: Answer): string | undefined {
  const texts = [
    ...unreachable.map(({ datacenter }) => `${datacenter} was not searched: it did not answer.`),
    ...(failed.length === 0 ? [] : [`Not searched: ${failed.join(', ')}.`]),
    ...(isComplete ? [] : ['Older names are still being indexed.']),
  ];
  return texts.length === 0 ? undefined : texts.join(' ');
}

/** What became of a search that has no answer. */
export function failureText({ code, message }: ApiError): string {
  return code === 'request.not_found'
    ? 'The controller is of an earlier version and cannot search. Search in a list instead.'
    : `The search failed: ${message}`;
}
