"""What tests of metrics, adapters and judges need: contracts to inherit, a loopback server, fixtures."""
