#include "session/output.h"

#include <algorithm>

namespace firebreak::session {

std::vector<Chunk> last_chunks(control::Flow& out, control::Flow& err) {
  std::vector<Chunk> chunks;
  if (std::string rest = out.end(); !rest.empty()) chunks.push_back({Stream::out, std::move(rest)});
  if (std::string rest = err.end(); !rest.empty()) chunks.push_back({Stream::err, std::move(rest)});
  return chunks;
}

void RunResult::add(Chunk chunk, std::size_t limit) {
  Collected& to = chunk.stream == Stream::out ? out : err;
  to.total += chunk.bytes.size();
  const std::size_t room = limit - std::min(limit, to.bytes.size());
  const std::size_t kept = std::min(room, chunk.bytes.size());
  if (kept == 0) return;
  if (!order.empty() && order.back().stream == chunk.stream)
    order.back().bytes += kept;
  else
    order.push_back({chunk.stream, kept});
  // The first chunk is moved: output that comes in one piece is not copied.
  if (to.bytes.empty() && kept == chunk.bytes.size())
    to.bytes = std::move(chunk.bytes);
  else
    to.bytes.append(chunk.bytes, 0, kept);
}

}  // namespace firebreak::session
