// A provider of OpenID Connect for tests: node provider.mjs PORT REDIRECT_URL OPTIONS
//
// Everybody signs in there with the own login and any password. The groups of a person are the
// words of the login after its first dot. OPTIONS is JSON:
//   signature  signature of the tokens for the client: RS256, ES256, PS256, EdDSA or HS256
//   late       seconds by which the clock of the provider is late
//   tls        files of a certificate for localhost and of its key
//   checked    whether the addresses of people are checked
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer as createPlain } from 'node:http';
import { createServer } from 'node:https';
import Provider from 'oidc-provider';

const [port, redirect, options = '{}'] = process.argv.slice(2);
const { signature = 'RS256', late = 0, tls, checked = true } = JSON.parse(options);

const now = Date.now;
Date.now = () => now() - late * 1000;

// The key is read anew from its text: Node 18 may hang while it exports a key that it has generated
// itself, when it collects garbage then.
const publicKeyEncoding = { type: 'spki', format: 'pem' };
const privateKeyEncoding = { type: 'pkcs8', format: 'pem' };
const key = (kind, settings) => {
  const { privateKey } = generateKeyPairSync(kind, { ...settings, publicKeyEncoding, privateKeyEncoding });
  return createPrivateKey(privateKey).export({ format: 'jwk' });
};
const keys = [key('rsa', { modulusLength: 2048 }), key('ec', { namedCurve: 'P-256' }), key('ed25519')];

const issuer = tls ? `https://localhost:${port}` : `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'holdfast',
      client_secret: 'a secret of many letters for signatures',
      redirect_uris: [redirect],
      id_token_signed_response_alg: signature,
    },
  ],
  jwks: { keys },
  enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256', 'PS256', 'EdDSA', 'HS256'] },
  pkce: { required: () => true },
  claims: { openid: ['sub'], profile: ['name', 'preferred_username', 'groups'], email: ['email', 'email_verified'] },
  // The cookies of a provider that is an hour late are good, its tokens are not.
  ttl: { AccessToken: 7200, Grant: 7200, IdToken: 600, Interaction: 7200, Session: 7200 },
  findAccount: (_, login) => ({
    accountId: login,
    claims: () => ({
      sub: login,
      preferred_username: login,
      name: `The person ${login}`,
      email: `${login}@example.org`,
      email_verified: checked,
      groups: login.split('.').slice(1),
    }),
  }),
});
const answer = provider.callback();
const [cert, secret] = (tls ?? []).map((path) => readFileSync(path));
const server = tls ? createServer({ cert, key: secret }, answer) : createPlain(answer);
server.listen(Number(port), '127.0.0.1', () => console.log('ready'));
