"""The consortium's own certificates: who signs, for which key, until when.

    make_key(site / "client.key")                          # at the hospital, and it stays there
    pem = request_for(site / "client.key", "charite")      # goes to the coordinator
    authority = Authority(north / "root")
    certificate = authority.signed(public_key_of(pem, "charite"), "charite", days=360)

Rules of this file:
1. A request tells a key and a name; the certificate's subject, purpose and dates are the authority's.
2. A site's certificate is good for clients alone: no hospital can pose as the coordinator with it.
3. Keys are RSA: NVFlare signs its registration with them, and knows no other way.
4. What is printed for people to compare is 96 bits, in groups that can be read out over the phone.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from wardround.engines.seal import write_private

Certificate = x509.Certificate
PublicKey = rsa.RSAPublicKey
BITS = 3072
SMALLEST, LARGEST = 2048, 8192  # bits of a key that is signed: below is weak, above takes a server's time
ROOT_DAYS = 3650
SLACK = timedelta(minutes=5)  # of clocks: a certificate is good a little before it was made
ORGANISATION = "wardround"


class CertificateError(ValueError):
    """A key, a request or a certificate is not what it should be; says why."""


def new_key() -> bytes:
    """A new private key (PEM)."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_half(key: bytes) -> PublicKey:
    """What belongs to a private key (PEM)."""
    return _private(key).public_key()


def make_key(path: Path) -> None:
    """Put a new private key where only its owner can read it."""
    write_private(path, new_key())


def request_for(key: Path, name: str) -> bytes:
    """A request (PEM) to sign this key for this name, signed with the key itself."""
    private = _private(key.read_bytes())
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .sign(private, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def public_key_of(request: bytes, name: str) -> PublicKey:
    """The key that a request is for, once its own signature and name are right."""
    try:
        read = x509.load_pem_x509_csr(request)
        names, key, valid = _names(read.subject), read.public_key(), read.is_signature_valid
    except (ValueError, TypeError, InvalidSignature) as error:
        raise CertificateError("its certificate request cannot be read") from error
    if not valid:
        raise CertificateError("its certificate request is not signed with the key that it asks for")
    if names != [name]:
        raise CertificateError(f"its certificate request is for {', '.join(names) or 'nobody'}, not for {name}")
    if not isinstance(key, PublicKey) or not SMALLEST <= key.key_size <= LARGEST:
        raise CertificateError(f"its key is not RSA of {SMALLEST} to {LARGEST} bits")
    return key


class Authority:
    """Who signs: the key and certificate in a consortium's `root/`; now, unless another time is given."""

    def __init__(self, folder: Path, now: datetime | None = None) -> None:
        self.certificate = read_certificate(folder / "root.crt")
        self.key, self.now = _private((folder / "root.key").read_bytes()), now

    def signed(self, key: PublicKey, name: str, days: int) -> Certificate:
        """A client's certificate: a site's, or a person's (`ada@submit`)."""
        other = x509.RFC822Name(name) if "@" in name else x509.DNSName(name)
        subject = [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANISATION),
        ]
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=True, data_encipherment=False,
            key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        return (
            self._begun(x509.Name(subject), key, days)
            .add_extension(x509.SubjectAlternativeName([other]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def renewed(self, old: Certificate, days: int) -> Certificate:
        """The same certificate for the same key, from now on."""
        key = old.public_key()
        if not isinstance(key, PublicKey):
            raise CertificateError("its key is not RSA")
        begun = self._begun(old.subject, key, days)
        ours = (x509.SubjectKeyIdentifier.oid, x509.AuthorityKeyIdentifier.oid)
        for extension in old.extensions:
            if extension.oid not in ours:
                begun = begun.add_extension(extension.value, extension.critical)
        return begun.sign(self.key, hashes.SHA256())

    def _begun(self, subject: x509.Name, key: PublicKey, days: int) -> x509.CertificateBuilder:
        now = self.now or datetime.now(UTC)
        ends = min(now + timedelta(days=days), self.certificate.not_valid_after_utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SLACK)
            .not_valid_after(ends)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )


# reading


def read_certificate(source: Path | bytes) -> Certificate:
    """The one certificate of a PEM file."""
    data = source.read_bytes() if isinstance(source, Path) else source
    try:
        (certificate,) = x509.load_pem_x509_certificates(data)
        _ = certificate.extensions, certificate.public_key()  # read late by the library
    except (ValueError, TypeError) as error:
        raise CertificateError("holds no certificate") from error
    return certificate


def read_der(data: bytes) -> Certificate:
    """A certificate as TLS shows it, which has checked it."""
    return x509.load_der_x509_certificate(data)


def names_in(pem: bytes) -> tuple[str, str]:
    """Whose certificate a stranger's is, and who signed it, as it says itself: printable, and not at length."""
    certificate = read_certificate(pem)
    names = (certificate.subject.rfc4514_string(), certificate.issuer.rfc4514_string())
    subject, issuer = ("".join(letter if letter.isprintable() else "?" for letter in name)[:80] for name in names)
    return subject or "nobody", issuer or "nobody"


def pem_of(certificate: Certificate) -> bytes:
    """A certificate as files have it."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def common_name(certificate: Certificate) -> str:
    """Whose certificate it is."""
    return ", ".join(_names(certificate.subject))


def dates(certificate: Certificate) -> tuple[datetime, datetime]:
    """From when on, and until when, it is good."""
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def belongs(certificate: Certificate, key: bytes) -> bool:
    """Whether this private key (PEM) is the certificate's."""
    try:
        return _private(key).public_key() == certificate.public_key()
    except CertificateError:
        return False


def issued_by(certificate: Certificate, root: Certificate) -> bool:
    """Whether this root signed it."""
    try:
        certificate.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def fingerprint(*parts: bytes) -> str:
    """What two people compare over the phone to know that they have the same."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    text = whole.hexdigest()[:24]
    return " ".join(text[n : n + 4] for n in range(0, 24, 4))


def same_fingerprint(one: str, other: str) -> bool:
    """Whether two people mean the same, blanks, dashes and capitals aside."""
    return _bare(one) == _bare(other)


def _bare(text: str) -> str:
    return "".join(text.split()).replace("-", "").lower()


def _private(pem: bytes) -> rsa.RSAPrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise CertificateError("holds no private key") from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise CertificateError("holds no RSA key")
    return key


def _names(subject: x509.Name) -> list[str]:
    return [str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
