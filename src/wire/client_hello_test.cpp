#include "wire/client_hello.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "wire/client_hello_test_support.h"

namespace firebreak::wire {
namespace {

using State = ClientHelloReader::State;
using Which = ClientHelloReader::Which;

// The name, or the fault as "!word"; "..." when more is wanted. In pieces of `piece` bytes.
std::string read(std::string_view bytes, std::size_t piece, Which which = Which::first) {
  ClientHelloReader reader(which);
  for (std::size_t at = 0; at < bytes.size(); at += piece) reader.feed(bytes.substr(at, piece));
  switch (reader.state()) {
    case State::done:
      return reader.server_name();
    case State::refused:
      return "!" + std::string(to_string(reader.fault()));
    case State::more:
      break;
  }
  return "...";
}

std::string read(std::string_view bytes, Which which = Which::first) {
  std::string whole = read(bytes, bytes.size() + 1, which);
  for (const std::size_t piece : {1UL, 2UL, 7UL}) EXPECT_EQ(read(bytes, piece, which), whole);
  return whole;
}

std::string of(std::string_view extensions) {
  return read(tls_records(hello_message(extensions)));
}

TEST(ClientHello, NameIsFoundInPiecesAndRecordsOfAnySize) {
  const std::string message =
      hello_message(tls_extension(10, "abcd") + server_name_extension("Shop.Example"));
  for (const std::size_t size : {1UL, 3UL, 64UL, 16384UL})
    EXPECT_EQ(read(tls_records(message, size)), "Shop.Example") << size;
  EXPECT_EQ(read(client_hello("a.example") + "whatever follows"), "a.example");
  ClientHelloReader reader;
  reader.feed(client_hello("a.example") + "whatever follows");
  EXPECT_EQ(reader.size(), client_hello("a.example").size());
  EXPECT_EQ(read(client_hello(std::string(255, 'a'))), std::string(255, 'a'));
  EXPECT_EQ(read(client_hello("a.example").substr(0, 60)), "...");
}

// One end of a TLS connection of another implementation, on memory.
class OpenSsl {
 public:
  explicit OpenSsl(const SSL_METHOD* method)
      : context_(SSL_CTX_new(method)), ssl_(SSL_new(context_)) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  }
  ~OpenSsl() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  OpenSsl(const OpenSsl&) = delete;
  OpenSsl& operator=(const OpenSsl&) = delete;

  SSL* get() { return ssl_; }
  // What it says after it was told this.
  std::string step(const std::string& told) {
    BIO_write(SSL_get_rbio(ssl_), told.data(), static_cast<int>(told.size()));
    SSL_do_handshake(ssl_);
    std::string said(BIO_pending(SSL_get_wbio(ssl_)), '\0');
    BIO_read(SSL_get_wbio(ssl_), said.data(), static_cast<int>(said.size()));
    return said;
  }

 private:
  SSL_CTX* context_;
  SSL* ssl_;
};

TEST(ClientHello, ThoseOfOpenSslAreRead) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    OpenSsl client(TLS_client_method());
    SSL_set_connect_state(client.get());
    SSL_set_max_proto_version(client.get(), version);
    SSL_set_tlsext_host_name(client.get(), "www.example.org");
    EXPECT_EQ(read(client.step("")), "www.example.org");
  }
  OpenSsl nameless(TLS_client_method());
  SSL_set_connect_state(nameless.get());
  EXPECT_EQ(read(nameless.step("")), "!the ClientHello names no server");
}

// Client and server have no group in common that the client has sent a key for.
TEST(ClientHello, RetryOfOpenSslIsNoticed) {
  OpenSsl client(TLS_client_method());
  SSL_set_connect_state(client.get());
  SSL_set1_groups_list(client.get(), "X25519:P-256");
  SSL_set_tlsext_host_name(client.get(), "www.example.org");
  OpenSsl server(TLS_server_method());
  SSL_set_accept_state(server.get());
  SSL_set1_groups_list(server.get(), "P-256");
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_pubkey(certificate, key);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_sign(certificate, key, EVP_sha256());
  SSL_use_certificate(server.get(), certificate);
  SSL_use_PrivateKey(server.get(), key);
  X509_free(certificate);
  EVP_PKEY_free(key);

  const std::string retry = server.step(client.step(""));
  EXPECT_EQ(ServerAnswerReader().feed(retry), ServerAnswerReader::State::retry);
  const std::string second = client.step(retry);
  EXPECT_EQ(read(second, Which::second), "www.example.org");
  EXPECT_EQ(ServerAnswerReader().feed(server.step(second)), ServerAnswerReader::State::other);
}

TEST(ClientHello, WhatIsNotTlsIsRefusedAtOnce) {
  EXPECT_EQ(read("G"), "!what came is not TLS");
  EXPECT_EQ(read("GET / HTTP/1.1\r\n\r\n"), "!what came is not TLS");
  EXPECT_EQ(read("SSH-2.0-x\r\n"), "!what came is not TLS");
  EXPECT_EQ(read(std::string("\x80\x2e\x01\x00\x02", 5)), "!what came is not TLS") << "SSL 2";
  EXPECT_EQ(read(std::string("\x16\x02", 2)), "!what came is not TLS");
  EXPECT_EQ(read(tls_record(21, "\x01")), "!what came is not TLS");
  EXPECT_EQ(read(tls_record(22, "\x02")), "!what came is not TLS") << "a ServerHello";
}

TEST(ClientHello, NamesMustBeOne) {
  const std::string one = server_name_extension("a.example");
  EXPECT_EQ(of(one), "a.example");
  EXPECT_EQ(of(""), "!the ClientHello names no server");
  EXPECT_EQ(of(tls_extension(10, "x")), "!the ClientHello names no server");
  EXPECT_EQ(of(one + server_name_extension("b.example")), "!the ClientHello names two servers");
  EXPECT_EQ(of(one + one), "!the ClientHello names two servers");
  const std::string entry = std::string(1, '\0') + tls_list16("a.example");
  EXPECT_EQ(of(tls_extension(0, tls_list16(entry + entry))), "!the ClientHello names two servers");
}

TEST(ClientHello, WhatDoesNotFitIsRefused) {
  const std::string malformed = "!the ClientHello is malformed";
  const std::string entry = std::string(1, '\0') + tls_list16("a.example");
  EXPECT_EQ(of(server_name_extension("")), malformed);
  EXPECT_EQ(of(server_name_extension(std::string(256, 'a'))), malformed);
  EXPECT_EQ(of(server_name_extension("a b")), malformed);
  EXPECT_EQ(of(server_name_extension(std::string("a\0b", 3))), malformed);
  EXPECT_EQ(of(server_name_extension("b\xc3\xbc.example")), malformed);
  EXPECT_EQ(of(tls_extension(0, "")), malformed);
  EXPECT_EQ(of(tls_extension(0, tls_list16(""))), malformed);
  EXPECT_EQ(of(tls_extension(0, tls_list16(entry) + "x")), malformed);
  EXPECT_EQ(of(tls_extension(0, tls_list16("\x01" + entry.substr(1)))), malformed)
      << "another kind of name";
  EXPECT_EQ(of(server_name_extension("a.example") + "x"), malformed);

  std::string message = hello_message(server_name_extension("a.example"));
  EXPECT_EQ(read(tls_record(22, message + message)), malformed) << "two in one record";
  EXPECT_EQ(read(tls_record(22, message.substr(0, 9)) + tls_record(23, "x")), malformed)
      << "interrupted";
  EXPECT_EQ(read(tls_record(22, "")), malformed);
  EXPECT_EQ(read(std::string("\x16\x03\x01\x40\x01", 5)), malformed) << "a record too long";
  for (std::size_t size = 0; size + 4 < message.size(); size++) {
    // Cut short, with a length that says so.
    const std::string cut = tls_message(1, message.substr(4, size));
    EXPECT_TRUE(read(tls_records(cut)).starts_with("!")) << size;
  }
}

TEST(ClientHello, LengthIsLimited) {
  const std::string filler = tls_extension(21, std::string(16000, '\0'));
  EXPECT_EQ(of(filler + server_name_extension("a.example")), "a.example");
  const std::string too_long = "!the ClientHello is too long";
  EXPECT_EQ(of(filler + tls_extension(21, std::string(500, '\0'))), too_long);
  EXPECT_EQ(read(tls_record(22, std::string("\x01\xff\xff\xff", 4))), too_long)
      << "said to be; the rest need not come";
}

TEST(ClientHello, SecondOneMayComeBehindOtherRecords) {
  const std::string between = tls_record(20, "\x01") + tls_record(23, std::string(100, 'e'));
  EXPECT_EQ(read(between + client_hello("a.example"), Which::second), "a.example");
  EXPECT_EQ(read(between + client_hello("a.example"), Which::first), "!what came is not TLS");
  EXPECT_EQ(read(between + tls_record(22, "\x14"), Which::second), "!what came is not TLS");
  std::string early;
  while (early.size() < kMaxClientHelloBytes) early += tls_record(23, std::string(16384, 'e'));
  EXPECT_EQ(read(early, 4096, Which::second), "!the ClientHello is too long");
}

TEST(ClientHello, ServerThatWantsAnotherIsNoticed) {
  using Answer = ServerAnswerReader::State;
  const std::string retry_random(
      "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"
      "\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c",
      32);
  const auto hello = [](const std::string& random) {
    return tls_message(2, std::string("\x03\x03", 2) + random + std::string(6, '\0'));
  };
  const auto answer = [](const std::string& bytes) {
    Answer whole = ServerAnswerReader().feed(bytes);
    ServerAnswerReader slow;
    for (const char byte : bytes) slow.feed({&byte, 1});
    EXPECT_EQ(slow.state(), whole);
    return whole;
  };
  EXPECT_EQ(answer(tls_records(hello(retry_random))), Answer::retry);
  EXPECT_EQ(answer(tls_records(hello(retry_random), 5)), Answer::retry);
  EXPECT_EQ(answer(tls_record(21, "\x01\x70") + tls_records(hello(retry_random))), Answer::retry);
  EXPECT_EQ(answer(tls_records(hello(std::string(32, 'r')))), Answer::other);
  EXPECT_EQ(answer(tls_records(hello(retry_random)).substr(0, 40)), Answer::more);
  EXPECT_EQ(answer("HTTP/1.1 400 Bad Request\r\n"), Answer::other);
  EXPECT_EQ(answer(tls_record(22, "\x0b")), Answer::other);
  EXPECT_EQ(answer(""), Answer::more);
}

}  // namespace
}  // namespace firebreak::wire
