-- Names by any part of them: a table of the names of keys, leases, environments and backends, which
-- one controller fills after the fact, and an index of their trigrams. No table that a grant or a
-- renewal writes is changed, and no extension is needed.
--
-- Controllers of the version before neither read nor fill it: their grants are found in the events.
-- older versions may start

-- Lower case for more than ASCII, whatever the locale of the database.
DO $$
DECLARE
  unicode text := (
    SELECT format('COLLATE pg_catalog.%I', collname)
    FROM pg_collation
    WHERE collname IN ('pg_c_utf8', 'und-x-icu') AND collnamespace = 'pg_catalog'::regnamespace
      AND collencoding IN (-1, (SELECT encoding FROM pg_database WHERE datname = current_database()))
    ORDER BY collname
    LIMIT 1
  );
BEGIN
  EXECUTE format(
    'CREATE FUNCTION search_folded(what text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE '
    'RETURN lower(what %s)', coalesce(unicode, ''));
END
$$;

-- Not strict: a condition on each of a million rows is read as if it were written out.
CREATE FUNCTION search_text(namespace text, name text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN search_folded(
  CASE
    WHEN namespace = '' AND strpos(name, '/') = 0 THEN name
    WHEN strpos(namespace, '/') = 0 AND strpos(namespace, '%') = 0 THEN namespace || '/' || name
    ELSE replace(regexp_replace(namespace, '%(?=2F|25)', '%25', 'g'), '/', '%2F') || '/' || name
  END);

CREATE FUNCTION search_words(what text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN chr(1) || translate(what, '/.-_:@#,+% ', repeat(chr(1), 11));

-- Not for parallel workers: a search would wait until they have started, for longer than it takes.
CREATE FUNCTION search_grams(what text) RETURNS tsvector
  LANGUAGE sql IMMUTABLE STRICT PARALLEL UNSAFE
RETURN array_to_tsvector(
  ARRAY(SELECT substr(what, i, 3) FROM generate_series(1, char_length(what)) AS i)
  || ARRAY(
    SELECT chr(1) || substr(what, i, 2)
    FROM generate_series(1, char_length(what)) AS i
    WHERE i = 1 OR strpos('/.-_:@#,+% ', substr(what, i - 1, 1)) > 0));

CREATE FUNCTION search_query(what text, is_word boolean) RETURNS tsquery
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (
  SELECT string_agg(
    '''' || replace(replace(g.gram, '\', '\\'), '''', '''''') || ''''
    || CASE WHEN char_length(g.gram) < 3 THEN ':*' ELSE '' END, ' & ')
  FROM (
    -- Each third one, and the last, cover the text: more would only be compared with each other.
    SELECT substr(what, i, 3) AS gram
    FROM generate_series(1, greatest(1, char_length(what) - 2)) AS i
    WHERE i % 3 = 1 OR i = char_length(what) - 2
    UNION ALL
    SELECT chr(1) || substr(what, 1, 2) WHERE is_word
  ) AS g
)::tsquery;

CREATE TABLE "search_name" (
  "kind" TEXT COLLATE "C" NOT NULL,
  "namespace" TEXT COLLATE "C" NOT NULL,
  "name" TEXT COLLATE "C" NOT NULL,
  "text" TEXT COLLATE "C" NOT NULL,
  "name_at" SMALLINT NOT NULL,

  CONSTRAINT "search_name_pkey" PRIMARY KEY ("kind", "namespace", "name")
);

CREATE INDEX "search_name_begin_idx"
  ON "search_name" ((char_length("text") - "name_at"), substr("text", "name_at"));
-- New pieces are merged a megabyte at a time: one by one took seven times as long. Searches read what is pending.
CREATE INDEX "search_name_grams_idx" ON "search_name" USING gin (search_grams("text"))
  WITH (gin_pending_list_limit = 1024);

CREATE TABLE "search_mark" (
  "part" TEXT COLLATE "C" NOT NULL,
  "through_id" BIGINT,
  "place" TEXT[],
  "walked_at" TIMESTAMPTZ(3),

  CONSTRAINT "search_mark_pkey" PRIMARY KEY ("part")
);

INSERT INTO "search_mark" ("part", "through_id")
SELECT 'events', (SELECT "through_id" FROM "stats_cursor")
UNION ALL SELECT 'leases', NULL
UNION ALL SELECT 'backends', NULL
UNION ALL SELECT 'names', NULL;

COMMENT ON FUNCTION search_folded(text) IS 'A text in lower case: two texts that differ only in case are found by each other.';
COMMENT ON FUNCTION search_text(text, text) IS 'A name in a namespace as it is printed, folded.';
COMMENT ON FUNCTION search_words(text) IS 'A folded text with a mark before each word.';
COMMENT ON FUNCTION search_grams(text) IS 'The pieces of a folded text: three characters from each place, and the first two of each word after a mark.';
COMMENT ON FUNCTION search_query(text, boolean) IS 'The pieces that a text must have to contain this one; with true, at the beginning of a word.';
COMMENT ON TABLE "search_name" IS 'The names that a search finds. Filled after the fact: a name may be missing for a moment, and one whose resource is gone may still be there.';
COMMENT ON COLUMN "search_name"."kind" IS 'key, lease, environment or backend.';
COMMENT ON COLUMN "search_name"."namespace" IS 'Of the resource; of a backend, that of its key.';
COMMENT ON COLUMN "search_name"."name" IS 'Of the resource; of a backend, its id.';
COMMENT ON COLUMN "search_name"."text" IS 'What is searched: the name as it is printed, folded.';
COMMENT ON COLUMN "search_name"."name_at" IS 'Where in the text the name begins, from 1.';
COMMENT ON TABLE "search_mark" IS 'How far search_name is filled. What fills it locks the row of the part.';
COMMENT ON COLUMN "search_mark"."part" IS 'events: names of new grants. leases, backends: all rows, again and again. names: removal of what is gone.';
COMMENT ON COLUMN "search_mark"."through_id" IS 'The event up to which names of grants are there.';
COMMENT ON COLUMN "search_mark"."place" IS 'The key of the row that a walk has reached; null at the beginning.';
COMMENT ON COLUMN "search_mark"."walked_at" IS 'When a walk last came to the end; null before the first time.';
