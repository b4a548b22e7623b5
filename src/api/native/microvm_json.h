// MicroVMs in the native API's JSON, both ways. Pure.
#pragma once

#include "base/json.h"
#include "control/supervisor.h"
#include "ingress/endpoint_address.h"

namespace firebreak::api {

json::object to_json(const core::Microvm& microvm, const ingress::EndpointAddress& endpoints);
json::object to_json(const core::IdlePolicy& policy);
json::object to_json(const core::Usage& usage);
json::object to_json(const core::Event& event);

// Of members that the tables have checked.
Result<control::LaunchRequest> parse_launch(const json::object& body);
Result<core::Hooks> parse_hooks(const json::object& object);
Result<core::IdlePolicy> parse_idle(const json::object& object, std::string path);

}  // namespace firebreak::api
