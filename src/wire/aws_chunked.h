// The aws-chunked content encoding without I/O: chunks with or without signatures, and trailers.
// Bytes come out before their chunk's signature has been seen: keep them aside until done().
// Owned by the request; single thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/checksum.h"
#include "wire/h2_session.h"

namespace firebreak::wire {

struct AwsChunkedFraming {
  bool signed_chunks = false;
  bool trailer = false;
  // For signed chunks: of the request that carries them.
  std::string signing_key;
  std::string timestamp;
  std::string scope;
  std::string seed_signature;
};

// By the claimed payload hash ("STREAMING-..."). Code::invalid for one that is not known.
Result<AwsChunkedFraming> aws_chunked_framing(std::string_view payload_hash);

class AwsChunkedDecoder {
 public:
  AwsChunkedDecoder(AwsChunkedFraming framing, std::uint64_t decoded_length);

  // Appends the payload of the bytes to `out`. Code::invalid for wrong framing, Code::denied for a
  // wrong signature.
  Result<> feed(std::string_view bytes, std::string& out);
  // The last chunk and the trailers were seen, all signatures agree and the length is as declared.
  bool done() const { return state_ == State::done; }
  const Headers& trailers() const { return trailers_; }

 private:
  enum class State { size, data, data_end, trailers, done };

  Result<bool> take_line(std::string_view& bytes);
  Result<> on_line();
  Result<> chunk_line();
  Result<> chunk_end();
  Result<> trailer_line();
  Result<> last();
  Result<> check_signature(std::string_view algorithm, std::string_view hashes,
                           std::string_view given);

  AwsChunkedFraming framing_;
  std::uint64_t expected_;
  std::uint64_t seen_ = 0;
  State state_ = State::size;
  std::string line_;
  std::uint64_t left_ = 0;
  bool last_ = false;
  std::string chunk_signature_;
  Checksum chunk_hash_{Checksum::Kind::sha256};
  Headers trailers_;
  std::string trailer_signature_;
};

}  // namespace firebreak::wire
