// Creates a certificate authority for one test run, with a server and a client certificate.
import { execFile } from "node:child_process";
import { chownSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { program } from "./programs.mjs";

const configuration = `
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
[client]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
`;

/**
 * Writes ca.crt, server.crt/.key and client.crt/.key (with the common name `clientName`) into the
 * directory. Returns their paths, and the PEM texts that a client needs: `ca`, `cert` and `key`.
 */
export async function makeCertificates(directory, { clientName = "syncguard", owner } = {}) {
  const openssl = (...args) =>
    promisify(execFile)(program("openssl"), args, { cwd: directory, encoding: "utf8" });
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const config = ["-config", "openssl.cnf"];
  writeFileSync(join(directory, "openssl.cnf"), configuration);
  await openssl(
    ...["req", "-x509", ...newKey, ...config, "-extensions", "ca", "-days", "2"],
    ...["-subj", "/CN=SyncGuard test CA", "-keyout", "ca.key", "-out", "ca.crt"],
  );
  for (const [role, name] of [
    ["server", "localhost"],
    ["client", clientName],
  ]) {
    await openssl(
      ...["req", ...newKey, ...config, "-subj", `/CN=${name}`],
      ...["-keyout", `${role}.key`, "-out", `${role}.csr`],
    );
    await openssl(
      ...["x509", "-req", "-in", `${role}.csr`, "-CA", "ca.crt", "-CAkey", "ca.key"],
      ...["-CAcreateserial", "-days", "2", "-extfile", "openssl.cnf", "-extensions", role],
      ...["-out", `${role}.crt`],
    );
  }
  if (owner?.uid) chownSync(join(directory, "server.key"), owner.uid, owner.gid);
  const file = (name) => join(directory, name);
  return {
    files: {
      ca: file("ca.crt"),
      serverCert: file("server.crt"),
      serverKey: file("server.key"),
      clientCert: file("client.crt"),
      clientKey: file("client.key"),
    },
    ca: readFileSync(file("ca.crt"), "utf8"),
    cert: readFileSync(file("client.crt"), "utf8"),
    key: readFileSync(file("client.key"), "utf8"),
  };
}
