// Any text: a message that is read can be answered and checked, and what we write is read again. As
// a stream of events it gives the same ones however it is cut.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "wire/mcp_envelope.h"
#include "wire/sse.h"

namespace mcp = firebreak::wire::mcp;

namespace {

std::string joined_events(std::string_view text, std::size_t piece) {
  firebreak::wire::SseReader reader;
  std::string all;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    if (!reader.feed(text.substr(at, piece))) return all;
    while (auto event = reader.next()) all += *event + "|";
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (mcp::decode_header(mcp::encode_header(text)) != std::string(text)) std::abort();
  (void)mcp::decode_header(text);
  if (joined_events(text, 3) != joined_events(text, 64)) std::abort();
  const auto incoming = mcp::parse(text);
  if (!incoming) {
    if (!mcp::parse(mcp::error_text(1, incoming.error().error))) std::abort();
    return 0;
  }
  for (const mcp::Message& message : incoming->messages) {
    const mcp::RoutingHeaders headers{
        .version = std::string(mcp::kModernVersion),
        .method = mcp::encode_header(message.method),
        .name = mcp::encode_header(mcp::routed_name(message).value_or(""))};
    (void)mcp::is_modern(message, headers);
    (void)mcp::check_envelope(message);
    (void)mcp::check_headers(message, headers);
    if (message.kind != mcp::Message::Kind::request) continue;
    const auto again = mcp::parse(mcp::result_text(message.id, message.params));
    if (!again || again->messages.front().id != message.id) std::abort();
  }
  return 0;
}
