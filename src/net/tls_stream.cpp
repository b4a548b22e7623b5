#include "net/tls_stream.h"

#include <array>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "net/semaphore.h"

namespace firebreak::net {
namespace {

constexpr std::size_t kRecord = 16UL * 1024;

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Context = std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Deleter<SSL_free>>;

// The reason of the oldest error of this thread; clears the rest.
std::string openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

std::string wire_protocols(const std::vector<std::string>& protocols) {
  std::string out;
  for (const std::string& name : protocols) {
    out.push_back(static_cast<char>(name.size()));
    out += name;
  }
  return out;
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

void set_common(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
}

// The session's bytes go through two memory BIOs; whoever has output to send takes the lock.
class SecureStream : public ByteStream {
 public:
  SecureStream(const asio::any_io_executor& executor, Session ssl,
               std::unique_ptr<ByteStream> stream)
      : ssl_(std::move(ssl)), stream_(std::move(stream)), sending_(executor) {
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  }

  SSL* ssl() { return ssl_.get(); }

  Task<Result<>> handshake(Deadline deadline) {
    for (;;) {
      ERR_clear_error();
      const int rv = SSL_do_handshake(ssl_.get());
      const int error = SSL_get_error(ssl_.get(), rv);
      const std::string reason = rv == 1 || error == SSL_ERROR_WANT_READ ? "" : handshake_error();
      FB_CO_TRY(co_await flush(deadline));
      if (rv == 1) co_return Result<>();
      if (error != SSL_ERROR_WANT_READ)
        co_return fail(Code::unavailable, "the TLS handshake failed: " + reason);
      FB_CO_TRY_ASSIGN(const bool more, co_await fill(deadline));
      if (!more) co_return fail(Code::unavailable, "the peer left during the TLS handshake");
    }
  }

  Task<Result<std::string>> read(Deadline deadline) override {
    for (;;) {
      if (closed_) co_return fail(Code::unavailable, "the connection was closed");
      std::string bytes(kRecord, '\0');
      std::size_t size = 0;
      ERR_clear_error();
      const int rv = SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &size);
      const int error = SSL_get_error(ssl_.get(), rv);
      if (rv == 1) {
        bytes.resize(size);
        co_return bytes;
      }
      const std::string reason = error == SSL_ERROR_SSL ? openssl_error() : "";
      FB_CO_TRY(co_await flush(deadline));
      if (error == SSL_ERROR_ZERO_RETURN) co_return std::string();
      if (error != SSL_ERROR_WANT_READ) {
        close();
        co_return fail(Code::unavailable, "the peer broke the TLS protocol", reason);
      }
      FB_CO_TRY_ASSIGN(const bool more, co_await fill(deadline));
      // Without TLS's own end anyone on the way may have cut the connection.
      if (!more) co_return fail(Code::unavailable, "the connection was cut");
    }
  }

  Task<Result<>> write(std::string_view bytes, Deadline deadline) override {
    while (!bytes.empty()) {
      if (closed_) co_return fail(Code::unavailable, "the connection was closed");
      const std::string_view piece = bytes.substr(0, 4 * kRecord);
      std::size_t size = 0;
      ERR_clear_error();
      if (SSL_write_ex(ssl_.get(), piece.data(), piece.size(), &size) != 1) {
        const std::string reason = openssl_error();
        close();
        co_return fail(Code::unavailable, "TLS cannot send", reason);
      }
      bytes.remove_prefix(size);
      FB_CO_TRY(co_await flush(deadline));
    }
    co_return Result<>();
  }

  Task<Result<>> finish(Deadline deadline) override {
    if (closed_) co_return fail(Code::unavailable, "the connection was closed");
    SSL_shutdown(ssl_.get());
    FB_CO_TRY(co_await flush(deadline));
    co_return co_await stream_->finish(deadline);
  }

  void close() override {
    closed_ = true;
    stream_->close();
  }

 private:
  std::string handshake_error() {
    const long verified = SSL_get_verify_result(ssl_.get());
    if (verified != X509_V_OK) {
      ERR_clear_error();
      return X509_verify_cert_error_string(verified);
    }
    return openssl_error();
  }

  Task<Result<>> flush(Deadline deadline) {
    BIO* out = SSL_get_wbio(ssl_.get());
    if (BIO_pending(out) == 0) co_return Result<>();
    FB_CO_TRY_ASSIGN(const Mutex::Guard guard, co_await sending_.lock(deadline));
    while (const std::size_t size = BIO_ctrl_pending(out)) {
      std::string bytes(size, '\0');
      BIO_read(out, bytes.data(), static_cast<int>(size));
      FB_CO_TRY(co_await stream_->write(bytes, deadline));
    }
    co_return Result<>();
  }

  // False: the peer's end of the connection below.
  Task<Result<bool>> fill(Deadline deadline) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream_->read(deadline));
    BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size()));
    co_return !bytes.empty();
  }

  Session ssl_;
  std::unique_ptr<ByteStream> stream_;
  Mutex sending_;
  bool closed_ = false;
};

TlsStream finished(std::unique_ptr<SecureStream> stream) {
  TlsStream out;
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(stream->ssl(), &name, &size);
  if (size > 0) out.protocol.assign(reinterpret_cast<const char*>(name), size);
  if (const char* sni = SSL_get_servername(stream->ssl(), TLSEXT_NAMETYPE_host_name)) out.sni = sni;
  out.stream = std::move(stream);
  return out;
}

class Server : public TlsServer {
 public:
  Server(Context context, const std::vector<std::string>& protocols)
      : context_(std::move(context)), protocols_(wire_protocols(protocols)) {
    SSL_CTX_set_alpn_select_cb(context_.get(), choose_protocol, this);
  }

  Task<Result<TlsStream>> accept(std::unique_ptr<ByteStream> stream, Deadline deadline) override {
    Session ssl(SSL_new(context_.get()));
    SSL_set_accept_state(ssl.get());
    auto secure = std::make_unique<SecureStream>(co_await asio::this_coro::executor, std::move(ssl),
                                                 std::move(stream));
    FB_CO_TRY(co_await secure->handshake(deadline));
    co_return finished(std::move(secure));
  }

 private:
  static int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                             const unsigned char* offered, unsigned offered_size, void* user) {
    const std::string& ours = static_cast<Server*>(user)->protocols_;
    unsigned char* chosen = nullptr;
    const int rv = SSL_select_next_proto(&chosen, out_size, bytes_of(ours),
                                         static_cast<unsigned>(ours.size()), offered, offered_size);
    *out = chosen;
    return rv == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
  }

  Context context_;
  std::string protocols_;
};

Result<> expect_host(SSL* ssl, const std::string& host) {
  X509_VERIFY_PARAM* param = SSL_get0_param(ssl);
  if (X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str()) == 1) return {};
  ERR_clear_error();
  if (SSL_set1_host(ssl, host.c_str()) != 1 || SSL_set_tlsext_host_name(ssl, host.c_str()) != 1)
    return fail(Code::invalid, "not a host name: " + host, openssl_error());
  return {};
}

}  // namespace

Result<std::shared_ptr<TlsServer>> TlsServer::load(const TlsFiles& files,
                                                   std::vector<std::string> protocols) {
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_server_method()));
  if (!context) return fail(Code::internal, "TLS cannot start", openssl_error());
  set_common(context.get());
  SSL_CTX_set_options(context.get(), SSL_OP_CIPHER_SERVER_PREFERENCE);
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate_file.c_str()) != 1)
    return fail(Code::unavailable, "cannot use the certificate " + files.certificate_file,
                openssl_error());
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1)
    return fail(Code::unavailable, "cannot use the key " + files.key_file, openssl_error());
  return std::make_shared<Server>(std::move(context), protocols);
}

Task<Result<TlsStream>> connect_tls(std::unique_ptr<ByteStream> stream, std::string host,
                                    std::string ca_file, std::vector<std::string> protocols,
                                    Deadline deadline) {
  ERR_clear_error();
  const Context context(SSL_CTX_new(TLS_client_method()));
  if (!context) co_return fail(Code::internal, "TLS cannot start", openssl_error());
  set_common(context.get());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const bool loaded = ca_file.empty()
                          ? SSL_CTX_set_default_verify_paths(context.get()) == 1
                          : SSL_CTX_load_verify_file(context.get(), ca_file.c_str()) == 1;
  if (!loaded)
    co_return fail(Code::unavailable, "cannot use the CA file " + ca_file, openssl_error());
  Session ssl(SSL_new(context.get()));
  FB_CO_TRY(expect_host(ssl.get(), host));
  const std::string offered = wire_protocols(protocols);
  SSL_set_alpn_protos(ssl.get(), bytes_of(offered), static_cast<unsigned>(offered.size()));
  SSL_set_connect_state(ssl.get());
  auto secure = std::make_unique<SecureStream>(co_await asio::this_coro::executor, std::move(ssl),
                                               std::move(stream));
  FB_CO_TRY(co_await secure->handshake(deadline));
  co_return finished(std::move(secure));
}

}  // namespace firebreak::net
