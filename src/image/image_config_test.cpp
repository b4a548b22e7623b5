#include <gtest/gtest.h>

#include "image/image_config_json.h"

namespace firebreak::image {
namespace {

TEST(ImageConfigJson, EverythingComesBack) {
  ImageConfig config;
  config.env = {{"PATH", "/bin"}, {"EMPTY", ""}, {"EQUALS", "a=b"}};
  config.user = "app:staff";
  config.workdir = "/srv";
  config.entrypoint = {"/bin/sh", "-c"};
  config.cmd = {"echo hello"};
  config.shell = {"/bin/bash", "-c"};
  config.exposed_ports = {"8080/tcp", "53/udp", "80/tcp"};
  config.labels = {{"a", "b"}};
  config.volumes = {"/data"};
  config.stop_signal = "SIGINT";
  config.onbuild = {"RUN true"};
  config.author = "somebody";
  config.healthcheck =
      Healthcheck{.test = {"CMD", "true"}, .interval = std::chrono::seconds(3), .retries = 2};
  const auto back = config_from_json(to_json(config));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, config);
  EXPECT_EQ(config_from_json({}).value(), ImageConfig());
  EXPECT_FALSE(config_from_json({{"Env", 3}}));
}

TEST(ImageConfigJson, TheFirstPortIsOfTcp) {
  ImageConfig config;
  EXPECT_EQ(first_port(config), 0);
  config.exposed_ports = {"53/udp", "8000-8010/tcp", "80/tcp"};
  EXPECT_EQ(first_port(config), 8000);
}

}  // namespace
}  // namespace firebreak::image
