"""Pictures of cubes: how they are painted, compared and chosen."""
