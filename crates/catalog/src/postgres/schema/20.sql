-- Identities of people at providers of OpenID Connect.

CREATE TABLE identity(
    issuer TEXT COLLATE "C" NOT NULL, subject TEXT COLLATE "C" NOT NULL, person BIGINT NOT NULL,
    made BIGINT NOT NULL, PRIMARY KEY(issuer, subject));
CREATE INDEX identity_by_person ON identity(person);
