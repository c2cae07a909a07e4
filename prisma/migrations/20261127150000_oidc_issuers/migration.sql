-- Accounts of an identity provider are known by issuer and subject. Only what the column means has changed: an account from
-- before is bound at its next sign-in, because nobody knows its issuer.
-- Controllers of the version before refuse a person whose account was bound (account_linked), and change nothing.
-- older versions may start

COMMENT ON COLUMN "person_account"."account_id" IS 'Issuer, a space, and subject at the provider; the subject alone if nobody has signed in with it since before issuers were kept; the id of the person for a password.';
