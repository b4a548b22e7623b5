// Link decoder: any bytes, in any pieces, give the same syncs; what the encoder made comes back
// unchanged.
#include <cstdlib>
#include <vector>

#include "wire/link.h"

namespace {

using firebreak::wire::LinkDecoder;
using firebreak::wire::LinkEncoder;
using firebreak::wire::Sync;

class Log : public LinkDecoder::Sink {
 public:
  void on_sync(const Sync& sync) override {
    syncs.push_back(sync);
    data.clear();
  }
  void on_data(std::string_view bytes) override {
    if (syncs.empty() || bytes.empty()) std::abort();
    data.append(bytes);
  }
  std::vector<Sync> syncs;
  std::string data;  // since the last sync
};

Log decode(std::string bytes, std::size_t piece) {
  Log log;
  LinkDecoder decoder;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    decoder.feed(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)), log);
  return log;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0] % 64;
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (decode(input, piece).syncs != decode(input, input.size() + 1).syncs) std::abort();

  // Cut anywhere, then a sender that begins anew.
  std::string wire = input;
  LinkEncoder encoder;
  const Sync sync{.version = 1, .nonce = {}};
  encoder.sync(sync, wire);
  for (std::size_t at = 0; at < input.size(); at += piece)
    encoder.data(std::string_view(input).substr(at, piece), wire);
  const Log log = decode(wire, piece);
  if (log.syncs.empty() || log.syncs.back() != sync || log.data != input) std::abort();
  return 0;
}
