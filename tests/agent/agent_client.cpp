#include "agent_client.h"

#include "base/text.h"

namespace firebreak::testing_agent {

Output parse_output(std::string_view body) {
  wire::FrameDecoder decoder;
  decoder.feed(body);
  Output output;
  for (;;) {
    auto frame = decoder.next();
    if (!frame || !*frame) break;
    const std::string& payload = (*frame)->payload;
    output.order.push_back(static_cast<char>('0' + static_cast<int>((*frame)->type)));
    switch ((*frame)->type) {
      case wire::FrameType::started:
        output.started = payload;
        break;
      case wire::FrameType::out:
        output.out += payload;
        break;
      case wire::FrameType::err:
        output.err += payload;
        break;
      case wire::FrameType::exit:
        output.exit = payload;
        break;
      case wire::FrameType::gap:
        output.gap += get_u64(payload.data());
        break;
      case wire::FrameType::item:
      case wire::FrameType::error:
      case wire::FrameType::done:
      case wire::FrameType::part:
        break;
    }
  }
  output.whole = decoder.empty();
  return output;
}

}  // namespace firebreak::testing_agent
